// Package builtins declares the names that the language has without being asked.
package builtins

import (
	"context"

	"github.com/flowgen/flowgen/runtime/workflow"
)

type (
	string struct{ Text text }
	error2 = error
	any    struct{ N int64 }
	bool   int8
)

type text []byte

const (
	true  = 1
	false = 0
)

var nil = 0

// Word returns a string of this package.
func Word(letters text) string { return string{Text: letters} }

func len() int64 { return 3 }

func append(b ...byte) text { return b }

func panic() {}

func make() any { return any{N: len()} }

// count takes and returns types that have the names of others.
//
//flow:step retries=2
func count(ctx context.Context, s string, more bool) (any, error2) {
	panic()
	var none error2
	if more == true {
		return any{N: make().N + int64(nil)}, none
	}
	return any{N: false}, none
}

// total does so, too.
//
//flow:workflow
func total(ctx workflow.Context, s string) (any, error2) {
	return Count(ctx, string{Text: append(s.Text...)}, true)
}
