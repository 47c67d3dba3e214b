// Package failures holds errors that callers recognise after they were stored.
package failures

import (
	"errors"
	"fmt"
)

// DeclinedError has fields.
//
//flow:error
type DeclinedError struct{ Reason string }

func (e *DeclinedError) Error() string { return e.Reason }

// Code is an error by value.
//
//flow:error name=billing.Code
type Code int

func (c Code) Error() string { return fmt.Sprint(int(c)) }

var (
	// ErrGone is a sentinel.
	//
	//flow:error
	ErrGone = errors.New("gone")

	errQuiet = errors.New("quiet") // not registered
)

//flow:error
var errPrivate = fmt.Errorf("private: %w", errQuiet)
