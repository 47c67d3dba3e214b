-- View keeps a view, or replaces or removes the one of its name.
--
-- KEYS  1 the views
-- ARGV  1 the name  2 the view, '' to remove it  3 how many there may be
--
-- Returns {'ok'}; {'none'}: there is none to be removed; {'full'}: there are as many of other
-- names, and nothing was written.
--
-- Atomic, because of several that are saved at the same time none may be one too many.
--
-- Parts: none

local key, name, view = KEYS[1], ARGV[1], ARGV[2]
if view == '' then
  return {redis.call('HDEL', key, name) == 1 and 'ok' or 'none'}
end
if redis.call('HEXISTS', key, name) == 0 and redis.call('HLEN', key) >= tonumber(ARGV[3]) then
  return {'full'}
end
redis.call('HSET', key, name, view)
return {'ok'}
