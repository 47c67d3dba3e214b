// Package flows contains the workflows that the speed program measures. Each kind has a package, so
// that a worker serves no others. Their code is generated like that of any user, so that the
// figures apply to the code that users run.
package flows
