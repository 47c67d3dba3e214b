package rate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin/internal/rate"
)

func TestOPS3_ANameHasItsRateAndWhatItDidNotUseForASecond(t *testing.T) {
	now := time.Unix(1000, 0)
	l := rate.New(20, func() time.Time { return now })
	took := func(name string) (n int) {
		for l.Take(name) == 0 {
			n++
		}
		return n
	}
	if a, b := took("a"), took("b"); a != 20 || b != 20 {
		t.Fatalf("at once: got %d and %d, want 20 each", a, b)
	}
	if wait := l.Take("a"); wait <= 0 || wait > 50*time.Millisecond {
		t.Errorf("got %v, want up to 50ms", wait)
	}
	total := 20
	for range 30 { // long enough for names to be dropped
		now = now.Add(100 * time.Millisecond)
		total += took("a")
	}
	if total < 79 || total > 80 {
		t.Errorf("in three seconds: got %d, want 80", total)
	}
	now = now.Add(time.Hour)
	if n := took("a"); n != 20 {
		t.Errorf("after an hour: got %d, want 20", n)
	}
	now = now.Add(-time.Minute)
	if l.Take("c") != 0 || l.Take("a") == 0 {
		t.Error("a clock that went back gives more, or nothing")
	}
}

func TestOPS3_NamesAreForgotten(t *testing.T) {
	now := time.Unix(1000, 0)
	l := rate.New(20, func() time.Time { return now })
	for i := range 100_000 {
		now = now.Add(100 * time.Microsecond)
		if l.Take(fmt.Sprint(i)) != 0 {
			t.Fatalf("%d: a new name has to wait", i)
		}
	}
	if n := l.Names(); n > 20_001 {
		t.Errorf("it remembers %d names, want those of two seconds", n)
	}
}
