/* The provider of app.c and library.c: arguments of all sizes, none, more than D fetches, and what is translated. */
typedef struct request { int number; } request_t;
typedef struct info { int number; } info_t;
translator info_t < request_t *R > { number = R->number; };
enum color { RED, BLUE };

provider app {
	probe start();
	probe small__sizes(int8_t, uint8_t, char, short, unsigned short, enum color);
	probe large(int, uint32_t, long long, size_t, char *, string);
	probe request__done(request_t *R) : (info_t *R);
	probe many(int, int, int, int, int, int, int, int, int, int, int, char *);
	probe value(double);
};
