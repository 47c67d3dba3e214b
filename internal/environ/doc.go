// Package environ fills config structs from the FLOWGEN_* environment variables. A field takes part
// if its tag env names a variable. Further tags are:
//
//	default  the default of the field, in the form of the variable
//	form     "size": an int that counts bytes
//	secret   "yes": the value is never printed; "url": only the password in the URL is not printed
//
// The value of a secret variable may also be in a file, whose path is in the variable with the
// suffix _FILE.
//
// White space around a value does not count, except in a secret. An empty value means that the
// variable is not set. Names lists the variables of all programs, because a program that does not
// link a struct must tell a variable of the struct from a misspelled one.
package environ
