/* A typedef means one thing. */
typedef int x_t; int y; struct s { int a; }; typedef struct s *x_t;
