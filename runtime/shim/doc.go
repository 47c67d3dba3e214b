// Package shim contains the functions that generated code calls. It is not meant for direct use:
// annotate functions, and flowgen generates the calls.
//
// Generated code refers to [V1]. A release that cannot serve the code of an older generator removes
// that constant, so that the code does not compile until it is generated again.
package shim
