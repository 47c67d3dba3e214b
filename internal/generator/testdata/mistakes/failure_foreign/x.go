// Package x names errors of other packages.
//
//flow:error io.EOFF
//flow:error io.Reader,os.ErrExist
//flow:error errOwn.x. x.errOwn
//flow:error io.Discard
package x

import (
	"errors"
	"io"
)

//flow:error io.EOF
var errOwn = errors.New("own")

var _ io.Reader
