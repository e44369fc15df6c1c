profile-997 /arg0/ { @[stack()] = count(); }
profile-997 /arg1 && pid == $target/ { @user[ustack(20, 0)] = count(); }
tick-60s { exit(0); }
dtrace:::END { trunc(@, 25); trunc(@user, 25); }
