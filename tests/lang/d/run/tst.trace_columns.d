/* trace() puts values into columns by their types. */
BEGIN { trace((char)-1); trace((short)-2); trace(-3); trace(-4L); trace("text"); }
BEGIN { trace((unsigned char)255); trace((unsigned short)65535); trace(1U); trace(1UL); exit(0); }
