struct o { char name[16]; }; translator struct o < int n > { name = "short"; };
BEGIN { trace(xlate <struct o> (1).name[16]); }
