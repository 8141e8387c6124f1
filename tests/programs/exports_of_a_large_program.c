// 100,000 exported functions, as a program with plugins has them (-rdynamic).
__asm__(
    ".macro one_more\n.globl exported_function_\\@\n.type exported_function_\\@, @function\nexported_function_\\@: ret\n"
    ".size exported_function_\\@, 1\n.endm\n"
    ".rept 100000\none_more\n.endr\n");
