"""Scenarios in Spotify and Amazon."""

from __future__ import annotations

from .scenario import Check, Scenario, tokens

__all__ = ["SCENARIOS"]

_LIBRARY = """
library, page = [], 0
while songs := apis.spotify.show_song_library(page_index=page, access_token=spotify_token):
    library, page = library + songs, page + 1
details = [apis.spotify.show_song(song_id=song['song_id'], access_token=spotify_token) for song in library]
print(details)
----
"""
_MOST_PLAYED = Scenario(
    name="own17",
    difficulty=2,
    apps=("spotify",),
    instruction="Which {genre} song in my Spotify song library has been played {which} often? Answer with its title.",
    variants=(
        {"genre": "rock", "which": "most", "pick": "max", "answer": "Engine Room"},
        {"genre": "folk", "which": "least", "pick": "min", "answer": "Salt Road"},
    ),
    solution=tokens("spotify")
    + _LIBRARY
    + """
pick = {'max': max, 'min': min}[$pick]
song = pick((each for each in details if each['genre'] == $genre), key=lambda each: each['play_count'])
apis.supervisor.complete_task(answer=song['title'])
""",
)
_LIKE = Scenario(
    name="own18",
    difficulty=2,
    apps=("spotify",),
    instruction="Like all songs of my Spotify song library that are {genre}.",
    variants=(
        {"genre": "rock", "titles": ["Copper Sky", "Engine Room", "Half a Mile"]},
        {"genre": "electronic", "titles": ["Grid", "Soft Reset"]},
    ),
    solution=tokens("spotify")
    + _LIBRARY
    + """
for song in details:
    if song['genre'] == $genre:
        apis.spotify.like_song(song_id=song['song_id'], access_token=spotify_token)
apis.supervisor.complete_task()
""",
    changes=("spotify.SongLike", "spotify.Song"),
    checks=(
        Check(
            "those songs are liked, and no others",
            "added, updated, removed = models.changed_records('spotify.SongLike')\n"
            "titles = {each.id: each.title for each in models.end.spotify.Song.all()}\n"
            "test.case((len(updated), len(removed)), '==', (0, 0))\n"
            "test.case(sorted(titles[each.song_id] for each in added), '==', expected['titles'])",
        ),
        Check(
            "they are liked by me",
            "added = models.changed_records('spotify.SongLike')[0]\n"
            "user = models.end.spotify.User.find_one(email=main_user.email)\n"
            "test.case({each.user_id for each in added}, '==', {user.id})",
        ),
    ),
)
_PLAYLIST = Scenario(
    name="own19",
    difficulty=2,
    apps=("spotify",),
    instruction="Add all songs of my Spotify song library that are longer than {minutes} minutes to my playlist "
    "'{playlist}'. No other song may be added, and none that is in it already twice.",
    variants=(
        {"minutes": 4, "playlist": "Evening", "added": ["Grid", "Half a Mile", "Soft Reset"]},
        {"minutes": 4, "playlist": "Morning", "added": ["Half a Mile", "Soft Reset"]},
    ),
    solution=tokens("spotify")
    + _LIBRARY
    + """
playlists = apis.spotify.show_playlist_library(access_token=spotify_token)
[playlist] = [each for each in playlists if each['title'] == $playlist]
shown = apis.spotify.show_playlist(playlist_id=playlist['playlist_id'], access_token=spotify_token)
inside = {song['id'] for song in shown['songs']}
for song in details:
    if song['duration'] > 60 * $minutes and song['song_id'] not in inside:
        apis.spotify.add_song_to_playlist(
            playlist_id=playlist['playlist_id'], song_id=song['song_id'], access_token=spotify_token
        )
apis.supervisor.complete_task()
""",
    changes=("spotify.PlaylistSong",),
    checks=(
        Check(
            "those songs are added, and no others",
            "added, updated, removed = models.changed_records('spotify.PlaylistSong')\n"
            "titles = {each.id: each.title for each in models.end.spotify.Song.all()}\n"
            "test.case((len(updated), len(removed)), '==', (0, 0))\n"
            "test.case(sorted(titles[each.song_id] for each in added), '==', expected['added'])",
        ),
        Check(
            "they are added to the right playlist",
            "added = models.changed_records('spotify.PlaylistSong')[0]\n"
            "playlists = {each.id: each.title for each in models.end.spotify.Playlist.all()}\n"
            "test.case({playlists[each.playlist_id] for each in added}, '==', {expected['playlist']})",
        ),
    ),
)
_CART = Scenario(
    name="own20",
    difficulty=2,
    apps=("amazon",),
    instruction="Put {quantity} of the best rated {kind} below ${limit} into my Amazon cart. Do not order.",
    variants=(
        {"kind": "kettle", "limit": 40, "quantity": 2, "name": "Kettle Arden"},
        {"kind": "lamp", "limit": 50, "quantity": 3, "name": "Desk lamp Gorse"},
    ),
    solution=tokens("amazon")
    + """
products = apis.amazon.search_products(
    product_type=$kind, max_price=$limit, page_limit=20, access_token=amazon_token
)
print(products)
----
best = max(products, key=lambda each: each['rating'])
apis.amazon.add_product_to_cart(product_id=best['product_id'], quantity=$quantity, access_token=amazon_token)
apis.supervisor.complete_task()
""",
    changes=("amazon.CartEntry",),
    checks=(
        Check(
            "the right product is in the cart, in the right number",
            "added, updated, removed = models.changed_records('amazon.CartEntry')\n"
            "names = {each.id: each.name for each in models.end.amazon.Product.all()}\n"
            "found = [(names[each.product_id], each.quantity) for each in added]\n"
            "test.case(found, '==', [(expected['name'], expected['quantity'])])",
        ),
    ),
)
_WISH = Scenario(
    name="own21",
    difficulty=1,
    apps=("amazon",),
    instruction="How much is the cheapest {kind} at Amazon, in dollars? Put it on my wish list, too.",
    variants=(
        {"kind": "kettle", "name": "Kettle Dale", "answer": 21},
        {"kind": "lamp", "name": "Desk lamp Gorse", "answer": 39.9},
    ),
    solution=tokens("amazon")
    + """
products = apis.amazon.search_products(product_type=$kind, page_limit=20, access_token=amazon_token)
cheapest = min(products, key=lambda each: each['price'])
apis.amazon.add_product_to_wish_list(product_id=cheapest['product_id'], access_token=amazon_token)
apis.supervisor.complete_task(answer=cheapest['price'])
""",
    changes=("amazon.WishListEntry",),
    checks=(
        Check(
            "one of that product is on the wish list",
            "added = models.changed_records('amazon.WishListEntry')[0]\n"
            "names = {each.id: each.name for each in models.end.amazon.Product.all()}\n"
            "test.case([(names[each.product_id], each.quantity) for each in added], '==', [(expected['name'], 1)])",
        ),
    ),
)
SCENARIOS = (_MOST_PLAYED, _LIKE, _PLAYLIST, _CART, _WISH)
