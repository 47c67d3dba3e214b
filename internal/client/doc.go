// Package client decides what a client package of an annotated package holds: the
// declarations that are copied, each as pieces of the user's text, and what stands in the way.
//
// A client starts runs and talks to them, and links nothing of the implementation. So whatever
// its definitions, topics, errors and so on refer to is copied (reach.go), as long as the copy
// is stored as the original is. What needs more than its own text stays where it is: a package
// without directives is imported instead (imports.go), and for everything else there is a
// diagnostic.
package client
