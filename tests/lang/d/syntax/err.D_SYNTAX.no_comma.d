/* Descriptions are separated by commas. */
BEGIN END { }
