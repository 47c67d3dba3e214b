// Package generated holds golden packages, which show the features of the
// generator: what people write, and the flow_gen.go that belongs to it. They are compiled
// and vetted like all other code, and a test proves that generating them again
// changes nothing.
package generated
