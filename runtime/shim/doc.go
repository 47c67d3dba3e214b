// Package shim is everything that generated code calls, and nothing else. It is
// not for people: annotate functions, and let flowgen write the calls.
//
// Generated code refers to [V1]. A release that can no longer serve the code of
// an older generator drops that constant, and the code does not compile until
// it is generated again.
package shim
