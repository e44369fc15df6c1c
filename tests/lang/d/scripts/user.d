pid$target:a.out:main:entry { self->in = 1; }
pid$target:libc.so*:malloc:entry /self->in/ { @sizes = quantize(arg0); @[ustack(5)] = sum(arg0); }
pid$target::malloc:return /arg1 == NULL/ { printf("%s: no memory\n", probefunc); ustack(); }
pid$target:a.out::3c { trace(uregs[R_RAX]); }
pid$target:a.out:-:100 { @[usym(uregs[R_PC])] = count(); }
pid$target:a.out:main:return { self->in = 0; exit(arg1 & 0xff); }
