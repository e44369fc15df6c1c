#pragma D option amin=Private/Private/Common /* all that is the target's own is of an unknown class */
dtrace:::BEGIN { trace(lib`number); }
