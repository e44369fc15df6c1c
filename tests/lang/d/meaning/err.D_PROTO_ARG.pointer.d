/* A number is no pointer. */
BEGIN { copyinto(arg0, 4, 4096); }
