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

// SessionConfig configures a Session. The zero value is for one server, whose sessions end with it.
type SessionConfig struct {
	// Lasts is how long a login is good at most; 0: 12 h. The token may end earlier, and the session with it.
	Lasts time.Duration
	// Secure says that browsers reach the server by TLS though it has none itself, as by a proxy. Cookies of requests
	// with TLS are Secure anyway.
	Secure bool
	// Key seals the cookies: 32 bytes, the same for all servers to which a browser may come. Nil: a new one.
	Key []byte
	// Now says what time it is; nil: time.Now.
	Now func() time.Time
}

// Session is the login of browsers: the cookie holds the token, sealed, and the time at which it ends. Nothing is
// kept of it here. Each request asks the authenticator about the token, so that one that is taken back or has
// expired ends its sessions. The cookie is HttpOnly and SameSite=Strict, and counts only on requests that a page of
// the same origin, or the user, has sent.
type Session struct {
	auth    admin.Authenticator
	cfg     SessionConfig
	seal    cipher.AEAD
	origins *http.CrossOriginProtection
}

var _ Identifier = (*Session)(nil)

// NewSession returns the logins with the tokens of an authenticator.
func NewSession(auth admin.Authenticator, cfg SessionConfig) (*Session, error) {
	cfg.Lasts = cmp.Or(cfg.Lasts, 12*time.Hour)
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Key == nil {
		cfg.Key = make([]byte, keySize)
		_, _ = rand.Read(cfg.Key) // which never fails
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
	// maxCookie bounds the value of a cookie, in bytes: browsers drop what is longer than 4,096 with its name and attributes.
	maxCookie = 3800
)

// Login sets the cookie on the answer if the token is somebody's, and returns whose. It refuses a page of another
// origin: nobody is logged in as somebody else without noticing.
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
	_, _ = rand.Read(nonce) // which never fails
	value := base64.RawURLEncoding.EncodeToString(s.seal.Seal(nonce, nonce, plain, []byte(name)))
	if len(value) > maxCookie {
		return admin.Principal{}, &admin.InputError{What: "the token is too long for a cookie", Fix: "log in with one of up to 2,800 bytes, or send it with each request as a bearer token"}
	}
	s.set(w, r, value, int(s.cfg.Lasts/time.Second))
	return p, nil
}

// Logout takes the cookie away. The token stays good.
func (s *Session) Logout(w http.ResponseWriter, r *http.Request) error {
	if err := s.origins.Check(r); err != nil {
		return foreign(err)
	}
	s.set(w, r, "", -1)
	return nil
}

func foreign(err error) error {
	return admin.NewProblem(admin.CodeForbidden, err.Error(), "ask from a page of the same origin")
}

func (s *Session) set(w http.ResponseWriter, r *http.Request, value string, age int) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure if the request is: without TLS browsers would drop it
		Name: s.name(r), Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: s.secure(r), SameSite: http.SameSiteStrictMode,
	})
}

func (s *Session) secure(r *http.Request) bool { return s.cfg.Secure || r.TLS != nil }

// name returns the name of the cookie. That of one that came by TLS can be set by no other host, and by nobody without TLS.
func (s *Session) name(r *http.Request) string {
	if s.secure(r) {
		return "__Host-flowgen_session"
	}
	return "flowgen_session"
}

// Identify is part of Identifier. A request that a page of another origin has sent has no credential, whatever its cookie.
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
		return refuse("the cookie is none of this server")
	}
	nonce, body := sealed[:s.seal.NonceSize()], sealed[s.seal.NonceSize():]
	plain, err := s.seal.Open(nil, nonce, body, []byte(name))
	if err != nil || len(plain) < 8 {
		return refuse("the cookie is none of this server")
	}
	if until := time.Unix(int64(binary.BigEndian.Uint64(plain)), 0); !s.cfg.Now().Before(until) {
		return refuse("the login has ended")
	}
	return s.auth.Authenticate(r.Context(), string(plain[8:]))
}
