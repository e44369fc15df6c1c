/* stacks, */
BEGIN { stack(); }
