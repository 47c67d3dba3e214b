package failure

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// sentinel is a registered error value. It may have several names, for example if another package
// declares the same value. It is stored under the first name and found under each name.
type sentinel struct {
	err   error
	names []string
}

// RegisterSentinel gives an error value a wire name. It panics if the value is not comparable.
func RegisterSentinel(name string, err error) {
	if err == nil || !reflect.ValueOf(err).Comparable() {
		panic(fmt.Sprintf("register error %s: %v is not a comparable error value", name, err))
	}
	registry.Lock()
	defer registry.Unlock()
	s := registry.sentinels[err]
	if s == nil {
		s = &sentinel{err: err}
		registry.sentinels[err] = s
		registry.known = slices.SortedFunc(slices.Values(append(slices.Clone(registry.known), known{name, err})), // readers may use the old list, so it is not modified
			func(a, b known) int { return strings.Compare(a.name, b.name) })
	}
	if !slices.Contains(s.names, name) {
		s.names = append(slices.Clone(s.names), name)
	}
}

// known is a sentinel with the name under which it is stored.
type known struct {
	name string
	err  error
}

// Local is implemented by errors whose Is method is valid only in this process. The Is method is
// not called when such an error is stored.
type Local interface{ LocalIs() }

// matched returns the names of the sentinels that an error matches by its own Is method. For
// example, errors of package syscall have such a method.
func matched(err error) (names []string) {
	m, ok := err.(interface{ Is(error) bool })
	if _, local := err.(Local); !ok || local {
		return nil
	}
	registry.RLock()
	all := registry.known
	registry.RUnlock()
	for _, k := range all { // without the lock, because Is is user code
		guard(func() {
			if m.Is(k.err) {
				names = append(names, k.name)
			}
		})
	}
	return names
}

// addMatched adds the sentinels that err matches to the causes of f. They have no causes
// themselves. A sentinel that is among the causes of f is not added.
func addMatched(f *event.Failure, err error) {
	var more []*event.Failure
	for _, name := range matched(err) {
		if !find(f, func(f *event.Failure) bool { return f.Type == name }) {
			more = append(more, &event.Failure{Type: name, Message: f.Message})
		}
	}
	f.Causes = append(more, f.Causes...)
}

// Is reports whether the stored error or one of its causes is the registered sentinel target.
func Is(f *event.Failure, target error) bool {
	if f == nil || target == nil || !hashable(target) {
		return false
	}
	registry.RLock()
	s := registry.sentinels[target]
	var names []string
	if s != nil {
		names = s.names
	}
	registry.RUnlock()
	return names != nil && find(f, func(f *event.Failure) bool { return slices.Contains(names, f.Type) })
}
