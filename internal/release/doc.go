// Package release tests that the modules of this tree can be released. It checks their requirements
// on each other, and executes the steps of a user who installs them from a module proxy.
package release
