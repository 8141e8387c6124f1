// What tells of its pool is a library of the program (examples/pool.c under another name of main).
int main_of_library(void);
int main(void) { return main_of_library(); }
