package environ

import "fmt"

// UnknownError reports an environment variable that begins with FLOWGEN_ but that no program reads.
type UnknownError struct {
	Name    string
	Nearest string // the known variable with the most similar name, or empty
}

// Error contains the most similar name.
func (e *UnknownError) Error() string {
	if e.Nearest == "" {
		return fmt.Sprintf("environment variable %s is unknown: remove it; flowctl config lists the known ones", e.Name)
	}
	return fmt.Sprintf("environment variable %s is unknown: did you mean %s?", e.Name, e.Nearest)
}

// ValueError reports an environment variable that has no value, or a value that cannot be used.
type ValueError struct {
	Name  string
	Value string // empty if the value is secret
	What  string // the problem, such as "is not set"
	Want  string // the expected form, such as "a duration, such as 10s"
	Err   error  // the cause, or nil
}

// Error contains the name of the variable, the value unless it is secret, and the expected form.
func (e *ValueError) Error() string {
	return fmt.Sprintf("environment variable %s %s: want %s", e.Name, e.What, e.Want)
}

// Unwrap returns the cause.
func (e *ValueError) Unwrap() error { return e.Err }
