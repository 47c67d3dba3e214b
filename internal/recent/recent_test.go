package recent

import "testing"

// kept reports whether a cache contains the given value for key.
func kept(c *Cache[string, int], key string, value *int) bool {
	return c.Get(key, func() *int { return new(int) }) == value
}

func TestCache_ForgetsWhatWasNotUsedForLongest(t *testing.T) {
	c := New[string, int](1000)
	values := map[string]*int{}
	for _, key := range []string{"a", "b", "c", "a"} {
		values[key] = c.Get(key, func() *int { return new(int) })
		c.Measure(key, values[key], 400)
	}
	if c.bytes != 800 || c.order.Len() != 2 || !kept(c, "a", values["a"]) || !kept(c, "c", values["c"]) {
		t.Errorf("%d bytes of %d values are kept, want 800 of a and c", c.bytes, c.order.Len())
	}
	large := c.Get("d", func() *int { return new(int) })
	c.Measure("d", large, 5000)
	if c.bytes != 5000 || c.order.Len() != 1 || !kept(c, "d", large) {
		t.Errorf("%d bytes of %d values are kept, want the large one that was used last", c.bytes, c.order.Len())
	}
}

func TestCache_AValueThatWasForgottenIsNotCounted(t *testing.T) {
	c := New[string, int](1000)
	old := c.Get("a", func() *int { return new(int) })
	c.Measure("a", old, 600)
	c.Measure("b", c.Get("b", func() *int { return new(int) }), 600) // The total exceeds the limit, so the cache removes a.
	c.Measure("a", old, 700)
	if c.bytes != 600 {
		t.Errorf("%d bytes are counted, want the 600 of b", c.bytes)
	}
	now := c.Get("a", func() *int { return new(int) })
	c.Measure("a", old, 700)
	if c.bytes != 600 || now == old {
		t.Errorf("%d bytes are counted, want none of the value that was forgotten", c.bytes)
	}
}
