// Package guide contains the code that the pages of docs/use quote. Package steps contains steps
// and their options. Package flows contains workflow code, and programs that start and follow runs.
// Package program contains a complete main function. Package mistakes contains invalid workflow
// code, with tests that show the consequences. The other packages belong to the pages with similar
// names.
package guide
