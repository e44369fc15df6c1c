/* Of a symbol without debug information the type is not known. */
BEGIN { trace(`untyped); }
