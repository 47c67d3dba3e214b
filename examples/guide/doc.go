// Package guide contains the code that the pages of docs/use quote: steps contains steps and their
// options; flows contains workflow code and programs that start and follow runs; program contains a
// complete main function; mistakes contains invalid workflow code, with tests that show the
// consequences.
package guide
