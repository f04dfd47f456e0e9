package sqlitestore

// Stopped returns why the store stopped; nil while it runs.
func (s *Store) Stopped() error { return s.stop.Err() }
