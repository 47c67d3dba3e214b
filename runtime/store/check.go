package store

import (
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// InvalidError says that a name or a number cannot be kept as it is by every store. What
// asked for it was refused, and nothing was written.
type InvalidError struct {
	What   string // for example "queue" or "value of a tag"
	Value  string
	Reason string
}

// Error names what was refused, and why.
func (e *InvalidError) Error() string { return fmt.Sprintf("%s %q %s", e.What, e.Value, e.Reason) }

// Permanent returns true: the same request will be refused again.
func (e *InvalidError) Permanent() bool { return true }

// CheckName refuses a name that some store cannot keep: one that is not valid UTF-8,
// which JSON and SQL text change, or that holds a zero byte, by which names are joined.
// Every store refuses the same names, so that a program may change its store.
func CheckName(what, name string) error {
	switch {
	case !utf8.ValidString(name):
		return &InvalidError{What: what, Value: name, Reason: "is not valid UTF-8"}
	case strings.IndexByte(name, 0) >= 0:
		return &InvalidError{What: what, Value: name, Reason: "holds a zero byte"}
	}
	return nil
}

// Check returns an *InvalidError if the class has a name that is none.
func (c Class) Check() error {
	if err := CheckName("queue", c.Queue); err != nil {
		return err
	}
	return CheckName("workflow", c.Workflow)
}

// Check returns an *InvalidError if the request has a class or a tag that is no name, or a
// priority that does not fit into 32 bits: a store may keep priorities as floating-point
// numbers. A workflow id may be any bytes: tokens of hooks come from outside.
// Stores answer it in Created.Err, before they look at anything else.
func (c *Create) Check() error {
	if err := c.Class.Check(); err != nil {
		return err
	}
	for name, value := range c.Tags {
		if err := CheckName("tag", name); err != nil {
			return err
		}
		if err := CheckName("value of a tag", value); err != nil {
			return err
		}
	}
	if p := int64(c.Priority); p < math.MinInt32 || p > math.MaxInt32 {
		return &InvalidError{What: "priority", Value: fmt.Sprint(c.Priority), Reason: "does not fit into 32 bits"}
	}
	return nil
}

// Check returns an *InvalidError if a class of the session has a name that is none.
func (s *Session) Check() error {
	for _, c := range s.Classes {
		if err := c.Check(); err != nil {
			return err
		}
	}
	return nil
}
