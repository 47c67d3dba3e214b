// Package docs holds the tests that keep the pages of this repository true:
// code that they quote is code that compiles, what they name exists, and their
// links lead somewhere.
package docs
