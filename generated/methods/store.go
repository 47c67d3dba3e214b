package methods

// Store holds items.
type Store struct{ items map[string]Item }
