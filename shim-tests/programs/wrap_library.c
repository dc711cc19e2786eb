// A library to preload: a program that finds `wrap_library_is_here` has it.
int wrap_library_is_here(void);
int wrap_library_is_here(void) { return 1; }
