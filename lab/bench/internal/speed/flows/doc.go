// Package flows holds the workflows that the speed program measures, a package for
// each kind, so that a worker serves no others. They are generated like those of
// any user, so the figures are those of the code that users run.
package flows
