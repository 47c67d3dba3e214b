package failure

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
)

// sentinel is a registered error value. It may have several names, for example the name in its own
// package and the name in another package that declares it as well. It is stored under the first,
// and found under all.
type sentinel struct {
	err   error
	names []string
}

// RegisterSentinel gives an error value a wire name. It panics if the value
// cannot be compared.
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
		registry.known = slices.SortedFunc(slices.Values(append(slices.Clone(registry.known), known{name, err})), // readers keep the old list
			func(a, b known) int { return strings.Compare(a.name, b.name) })
	}
	if !slices.Contains(s.names, name) {
		s.names = append(slices.Clone(s.names), name)
	}
}

// known is a sentinel by the name under which it is stored.
type known struct {
	name string
	err  error
}

// Local is implemented by errors whose Is method is valid only in this process, not for the stored
// form. It is not called when such an error is stored.
type Local interface{ LocalIs() }

// matched returns the names of the sentinels that an error matches by its own Is method, as the
// errors of package syscall do.
func matched(err error) (names []string) {
	m, ok := err.(interface{ Is(error) bool })
	if _, local := err.(Local); !ok || local {
		return nil
	}
	registry.RLock()
	all := registry.known
	registry.RUnlock()
	for _, k := range all { // without the lock, because the method is user code
		if saysIs(m, k.err) {
			names = append(names, k.name)
		}
	}
	return names
}

// saysIs calls an Is method and recovers its panics.
func saysIs(m interface{ Is(error) bool }, target error) (is bool) {
	defer func() {
		if recover() != nil {
			is = false
		}
	}()
	return m.Is(target)
}

// addMatched stores with f the sentinels that err matches, as causes without causes of their own,
// unless a sentinel is already among the causes.
func addMatched(f *event.Failure, err error) {
	var more []*event.Failure
	for _, name := range matched(err) {
		if !find(f, func(f *event.Failure) bool { return f.Type == name }) {
			more = append(more, &event.Failure{Type: name, Message: f.Message})
		}
	}
	f.Causes = append(more, f.Causes...)
}

// Is reports whether the stored error, or one of its causes, is the registered
// sentinel target.
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
