package limit_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/limit"
)

// panics returns the panic value of f.
func panics(f func()) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprint(r)
		}
	}()
	f()
	return ""
}

func TestDeclarations_PanicWithWhatIsWrong(t *testing.T) {
	limit.New("test.twice", limit.Config{AtOnce: 1})
	limit.New("test.twice", limit.Config{AtOnce: 1}) // two identical declarations are allowed, because a package may be loaded twice
	var zero limit.Limit
	for want, f := range map[string]func(){
		"has no name":           func() { limit.New("", limit.Config{}) },
		"limit at once":         func() { limit.New("test.negative", limit.Config{AtOnce: -1}) },
		"rate":                  func() { limit.New("test.rate", limit.Config{Rate: -1}) },
		"use NewKeyed":          func() { limit.New("test.spread", limit.Config{Spread: true}) },
		"declared twice":        func() { limit.New("test.twice", limit.Config{AtOnce: 2}) },
		"give one of them":      func() { limit.NewLocal("test.twice") },
		"another name":          func() { limit.NewKeyed[string]("test.twice", limit.Config{AtOnce: 1}) },
		"does not fit into 31":  func() { limit.NewKeyed[int]("test.large", limit.Config{Waiting: 1 << 40}) },
		"time of a rate":        func() { limit.New("test.per", limit.Config{Rate: 1, Per: -time.Second}) },
		"declare it with limit": func() { _ = zero.Name() },
	} {
		if got := panics(f); !strings.Contains(got, want) {
			t.Errorf("got the panic %q, want one that says %q", got, want)
		}
	}
}

func TestLimit_SaysItsNameAndItsKey(t *testing.T) {
	keyed := limit.NewKeyed[int64]("test.numbers", limit.Config{AtOnce: 1})
	for want, l := range map[string]limit.Limit{
		"test.plain":     limit.New("test.plain", limit.Config{}),
		"test.local":     limit.NewLocal("test.local"),
		"test.numbers/7": keyed.For(7),
		"test.numbers":   keyed.All(),
	} {
		if l.String() != want || l.Name() != strings.TrimSuffix(want, "/7") || (l.Key() == "7") != strings.HasSuffix(want, "/7") {
			t.Errorf("got %q with name %q and key %q, want %q", l, l.Name(), l.Key(), want)
		}
	}
}
