// Reports its pool from a library of the program (examples/pool.c with another name for main).
int main_of_library(void);
int main(void) { return main_of_library(); }
