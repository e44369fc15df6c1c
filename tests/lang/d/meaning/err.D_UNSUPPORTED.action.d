/* actions, */
BEGIN { print(1); }
