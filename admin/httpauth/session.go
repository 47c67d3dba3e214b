package httpauth

import (
	"cmp"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// SessionConfig configures a Session. The zero value is for a single server, whose sessions end
// with the process.
type SessionConfig struct {
	// Lasts is the maximum duration of a login; 0 means 12 h. The session ends earlier if its token
	// expires.
	Lasts time.Duration
	// Secure reports whether browsers use TLS although the server does not, for example behind a
	// proxy. The cookies of requests over TLS are always Secure.
	Secure bool
	// Key encrypts the cookies. It has 32 bytes and must be the same on all servers that a browser
	// may reach. Nil means a random key.
	Key []byte
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Session implements logins of browsers. The cookie contains the encrypted token and the time at
// which the session ends. The server stores nothing. For each request, the authenticator checks the
// token, so that a revoked or expired token ends its sessions. The cookie is HttpOnly and
// SameSite=Strict. It is accepted only in requests from the same origin, and in requests that the
// user makes directly.
type Session struct {
	auth    admin.Authenticator
	cfg     SessionConfig
	seal    cipher.AEAD
	origins *http.CrossOriginProtection
}

var _ Identifier = (*Session)(nil)

// NewSession returns a Session for the tokens of an authenticator. It returns an error if the key
// is invalid.
func NewSession(auth admin.Authenticator, cfg SessionConfig) (*Session, error) {
	cfg.Lasts = cmp.Or(cfg.Lasts, 12*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Key == nil {
		cfg.Key = make([]byte, keySize)
		_, _ = rand.Read(cfg.Key) // rand.Read never returns an error
	}
	if len(cfg.Key) != keySize {
		return nil, &admin.InputError{What: fmt.Sprintf("the key of sessions has %d bytes", len(cfg.Key)), Fix: fmt.Sprintf("give %d random ones", keySize)}
	}
	block, err := aes.NewCipher(cfg.Key)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of sessions: %w", err)
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the cipher of sessions: %w", err)
	}
	return &Session{auth: auth, cfg: cfg, seal: seal, origins: http.NewCrossOriginProtection()}, nil
}

const (
	keySize = 32
	// maxCookie is the maximum length of the value of a cookie in bytes. Browsers drop cookies that
	// are longer than 4,096 bytes including name and attributes.
	maxCookie = 3800
)

// Login checks the token, sets the cookie in the response, and returns the principal of the token.
// It refuses requests from pages of other origins. Otherwise such a page could log a user in as
// another user without the user's knowledge.
func (s *Session) Login(w http.ResponseWriter, r *http.Request, token string) (admin.Principal, error) {
	if err := s.origins.Check(r); err != nil {
		return admin.Principal{}, foreign(err)
	}
	p, err := s.auth.Authenticate(r.Context(), token)
	if err != nil {
		return admin.Principal{}, err
	}
	name, until := s.name(r), s.cfg.Now().Add(s.cfg.Lasts)
	plain := append(binary.BigEndian.AppendUint64(nil, uint64(until.Unix())), token...)
	nonce := make([]byte, s.seal.NonceSize())
	_, _ = rand.Read(nonce) // rand.Read never returns an error
	value := base64.RawURLEncoding.EncodeToString(s.seal.Seal(nonce, nonce, plain, []byte(name)))
	if len(value) > maxCookie {
		return admin.Principal{}, &admin.InputError{What: "the token is too long for a cookie", Fix: "log in with one of up to 2,800 bytes, or send it with each request as a bearer token"}
	}
	s.set(w, r, value, int(s.cfg.Lasts/time.Second))
	return p, nil
}

// Logout removes the cookie. The token remains valid.
func (s *Session) Logout(w http.ResponseWriter, r *http.Request) error {
	if err := s.origins.Check(r); err != nil {
		return foreign(err)
	}
	s.set(w, r, "", -1)
	return nil
}

func foreign(err error) error {
	return admin.NewProblem(admin.CodeForbidden, err.Error(), "send it from a page of the same origin")
}

func (s *Session) set(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure if the request is: without TLS browsers would drop it
		Name: s.name(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode,
	})
}

func (s *Session) secure(r *http.Request) bool { return s.cfg.Secure || r.TLS != nil }

// name returns the name of the cookie. For TLS, the name has a prefix that prevents other hosts and
// unencrypted connections from setting the cookie.
func (s *Session) name(r *http.Request) string {
	if s.secure(r) {
		return "__Host-flowgen_session"
	}
	return "flowgen_session"
}

// Identify implements [Identifier]. It ignores the cookie in a request from a page of another
// origin.
func (s *Session) Identify(r *http.Request) (admin.Principal, error) {
	name := s.name(r)
	given := r.CookiesNamed(name)
	if len(given) == 0 || s.origins.Check(r) != nil {
		return admin.Principal{}, ErrNoCredential
	}
	refuse := func(what string) (admin.Principal, error) {
		return admin.Principal{}, &admin.UnauthenticatedError{What: what}
	}
	sealed, err := base64.RawURLEncoding.DecodeString(given[0].Value)
	if err != nil || len(given) > 1 || len(sealed) < s.seal.NonceSize() {
		return refuse("the cookie was not issued by this server")
	}
	nonce, body := sealed[:s.seal.NonceSize()], sealed[s.seal.NonceSize():]
	plain, err := s.seal.Open(nil, nonce, body, []byte(name))
	if err != nil || len(plain) < 8 {
		return refuse("the cookie was not issued by this server")
	}
	if until := time.Unix(int64(binary.BigEndian.Uint64(plain)), 0); !s.cfg.Now().Before(until) {
		return refuse("the login has ended")
	}
	return s.auth.Authenticate(r.Context(), string(plain[8:]))
}
