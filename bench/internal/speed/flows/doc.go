// Package flows holds the workflows that the speed program measures, a package for
// each kind, so that a worker serves no others. They are generated like those of
// any user: what is measured is what users run.
package flows
