package fatal

import (
	"context"
	"io"
)

var ErrGone = io.EOF

var number = 5

type declined struct{}

func (*declined) Error() string { return "" }

type generic[T any] struct{}

func (generic[T]) Error() string { return "" }

func function() error { return nil }

//flow:step fatal=ErrGon
func misspelt(ctx context.Context) error { return nil }

//flow:step fatal=number
func notError(ctx context.Context) error { return nil }

//flow:step fatal=declined
func byValue(ctx context.Context) error { return nil }

//flow:step fatal=*ErrGone
func pointer(ctx context.Context) error { return nil }

//flow:step fatal=function
func called(ctx context.Context) error { return nil }

//flow:step fatal=io.EOFF,os.ErrExist
func qualified(ctx context.Context) error { return nil }

//flow:step fatal=generic
func instance(ctx context.Context) error { return nil }

//flow:step fatal=ErrGone,ErrGone
func twice(ctx context.Context) error { return nil }

//flow:step fatal=a-b
func malformed(ctx context.Context) error { return nil }

//flow:step fatal=ErrGone,*declined,io.EOF
func good(ctx context.Context) error { return nil }
