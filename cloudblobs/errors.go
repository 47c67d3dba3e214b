package cloudblobs

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"gocloud.dev/gcerrors"
)

// Error is a failed call of a store.
type Error struct {
	Op     string // open, put, get, delete or list
	Name   string // name of the blob, or prefix of the list; may be empty
	Reason Reason
	Err    error // of the driver
}

// Reason describes why a call has failed.
type Reason string

// These are the reasons of an [Error].
const (
	NoBucket    Reason = "the bucket does not exist: create it or correct the URL"
	Denied      Reason = "access is denied: correct the credentials or grant the permissions that package cloudblobs lists"
	Full        Reason = "the bucket is full: raise its quota or give it more storage"
	Slow        Reason = "the service did not answer in time: check the network and the load of the service"
	Unavailable Reason = "the service is unavailable: check that it is running and can be reached"
	Rejected    Reason = "the service rejects the request: correct the URL or the settings of the bucket"
	Unsorted    Reason = "the service does not sort its lists: use another kind of bucket"
)

// passes reports whether another attempt may succeed.
func (r Reason) passes() bool { return r == Slow || r == Unavailable }

// Error contains the call, the reason, the fix and the cause.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s: %v", subject(e.Op, e.Name), e.Reason, e.Err)
}

// Unwrap returns the error of the driver.
func (e *Error) Unwrap() error { return e.Err }

func subject(op, name string) string {
	switch {
	case op == "open":
		return "open the bucket of blobs"
	case op == "list":
		return fmt.Sprintf("list blobs with prefix %q", name)
	case name == "":
		return op + " blobs"
	}
	return op + " blob " + name
}

var errNoBucket = errors.New("bucket not found")

// reason returns why an attempt has failed. Drivers have codes for few errors: those of the service
// and the status of its answer have more.
func (s *Store) reason(err error) Reason {
	var answer interface{ HTTPStatusCode() int }
	var service interface{ ErrorCode() string }
	var status int
	var code string
	if errors.As(err, &answer) {
		status = answer.HTTPStatusCode()
	}
	if errors.As(err, &service) {
		code = service.ErrorCode()
	}
	switch known := gcerrors.Code(err); {
	case errors.Is(err, errNoBucket):
		return NoBucket
	case errors.Is(err, errSlow):
		return Slow
	case status == http.StatusInsufficientStorage || strings.Contains(code, "QuotaExceeded") || strings.Contains(code, "StorageFull"),
		errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return Full
	case status == http.StatusUnauthorized || status == http.StatusForbidden || known == gcerrors.PermissionDenied:
		return Denied
	case slices.Contains([]string{"RequestTimeout", "SlowDown"}, code), status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return Unavailable
	case status >= 300 && status < 500, slices.Contains([]gcerrors.ErrorCode{gcerrors.InvalidArgument, gcerrors.FailedPrecondition, gcerrors.Unimplemented}, known):
		return Rejected
	}
	return Unavailable
}
