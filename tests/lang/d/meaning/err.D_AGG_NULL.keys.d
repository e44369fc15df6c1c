/* One with keys is no variable that might be unknown: it does nothing either. */
BEGIN { @never[1, "two"]; }
