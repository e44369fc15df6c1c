/* Two pointers are not added. */
BEGIN { trace((int *)1 + (int *)2); }
