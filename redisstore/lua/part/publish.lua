-- publish does to the streams of a chain what count publications say, one after the
-- other: ARGV holds from first on of each the stream, what is to be done (d to drop it,
-- b to append a body, c to close it), the body, how many chunks are kept or '0', and
-- the writer of the chunk and its number. How the streams stand then, and what their
-- writers have written, is kept once for all. It tells the followers, if there are any.
local function publish(chain, first, count, followed)
  local known = {}
  for i = first, first + 6 * count - 1, 6 do
    local name, what, body, keep, writer, nth = ARGV[i], ARGV[i + 1], ARGV[i + 2], tonumber(ARGV[i + 3]), ARGV[i + 4], ARGV[i + 5]
    local chunks, writers, st = tag .. 'C:' .. chain .. ':' .. name, tag .. 'W:' .. chain .. ':' .. name, known[name]
    if not st then
      st = {nths = {}}
      st.from, st.last, st.longest, st.closed = stream_at(chain, name)
      known[name] = st
    end
    if not st.from or string.find(what, 'd') then
      redis.call('UNLINK', chunks, writers)
      st.from, st.last, st.longest, st.closed, st.nths = nil, 0, 0, '0', {}
    end
    if writer ~= '' and not st.nths[writer] then
      st.nths[writer] = tonumber(redis.call('HGET', writers, writer) or 0)
    end
    if string.find(what, 'b') and st.closed == '0' and (writer == '' or st.nths[writer] < tonumber(nth)) then
      st.from, st.last, st.longest = st.from or 1, st.last + 1, math.max(st.longest, #body)
      redis.call('XADD', chunks, st.last .. '-0', 'f', body)
      if writer ~= '' then
        st.nths[writer] = tonumber(nth)
      end
    end
    if st.from and keep > 0 and st.last - st.from >= keep then
      st.from = st.last - keep + 1
      redis.call('XTRIM', chunks, 'MINID', st.from .. '-0')
    end
    if string.find(what, 'c') and st.closed == '0' then
      st.from, st.closed = st.from or 1, '1'
      if (st.last - st.from + 1) * st.longest <= 65536 and redis.call('COPY', chunks, tag .. 'y', 'REPLACE') == 1 then
        redis.call('RENAME', tag .. 'y', chunks) -- as in compact: it takes what it needs
      end
    end
  end
  for name, st in pairs(known) do
    for writer, nth in pairs(st.nths) do
      if nth > 0 then
        redis.call('HSET', tag .. 'W:' .. chain .. ':' .. name, writer, string.format('%.0f', nth))
      end
    end
    if st.from then
      redis.call('HSET', tag .. 'S:' .. chain, name, string.format('%.0f %.0f %.0f %s', st.from, st.last, st.longest, st.closed))
    else
      redis.call('HDEL', tag .. 'S:' .. chain, name)
    end
    if followed then
      redis.call('PUBLISH', tag .. 'stream:' .. chain, (st.closed == '0' and string.format('%.0f', st.last) or '') .. ' ' .. name)
    end
  end
end
