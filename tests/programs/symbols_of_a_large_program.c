// Functions with 60,000 names, which a program reads that has an allocator linked in.
__asm__(
    ".macro one_more\n.type one_of_many_functions_\\@, @function\none_of_many_functions_\\@: ret\n.endm\n"
    ".rept 60000\none_more\n.endr\n");
