// Package release tests that the modules of this tree can be released: their requirements on each
// other, and the steps of a user who installs them from a proxy.
package release
