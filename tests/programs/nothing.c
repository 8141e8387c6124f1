// Exits at once and allocates nothing.
int main(void) { return 0; }
