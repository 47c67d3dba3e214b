// Package guide holds the code that the pages of docs/use quote: steps has steps and
// what can be said about them, flows workflow code and the programs that start
// and follow runs, program a whole main, mistakes what workflow code must not do, with what happens
// then as tests.
package guide
