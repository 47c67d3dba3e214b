package failure

import "errors"

type list []string

func (list) Error() string { return "" }

//flow:error
type notError struct{}

//flow:error
var number = 5

//flow:error
type lossy struct{ code int }

func (lossy) Error() string { return "" }

//flow:error
type generic[T any] struct{}

func (generic[T]) Error() string { return "" }

//flow:error
type iface interface{ error }

//flow:error
var errA, errB = errors.New("a"), errors.New("b")

//flow:error name=short
var errShort = errors.New("c")

//flow:error
type alias = lossy

var (
	// ErrGood is good.
	//
	//flow:error
	ErrGood = errors.New("good")

	//flow:error
	count int

	//flow:error
	errLater error

	//flow:error
	errSlice = list{}
)
