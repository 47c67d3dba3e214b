-- stream_at returns the state of a stream: the first kept chunk, the last chunk, the size of the
-- longest chunk, and '1' if the stream is closed. It returns nil if the stream was never written.
local function stream_at(chain, name)
  local state = redis.call('HGET', tag .. 'S:' .. chain, name)
  if state then
    local first, last, longest, closed = string.match(state, '^(%d+) (%d+) (%d+) (%d)$')
    return tonumber(first), tonumber(last), tonumber(longest), closed
  end
end
