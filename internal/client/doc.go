// Package client determines the contents of the client package of an annotated package: copied
// declarations, each as pieces of the user's text, and the obstacles to copying.
//
// A client starts runs and communicates with them, and does not link the implementation. Therefore
// everything that its definitions, topics and errors refer to is copied (reach.go), provided that
// the copy is encoded like the original. A declaration that needs more than its own text is not
// copied: if its package has no directives, the client imports that package (imports.go).
// Everything else causes a diagnostic.
package client
